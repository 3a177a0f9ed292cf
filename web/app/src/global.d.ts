/** What tests and curious people see of a running page in `window.foveate`. */
interface Window {
  foveate?: { readonly page: string; readonly [fact: string]: unknown };
}
