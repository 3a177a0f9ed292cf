/** What tests and developers can read of a running page in `window.foveate`. */
interface Window {
  foveate?: { readonly page: string; readonly [fact: string]: unknown };
}
