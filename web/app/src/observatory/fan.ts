/**
 * A view as shapes around a pivot at the origin that looks along +x: where grades change.
 *
 * Strictness from 1 (exact) to 0 (loosest) becomes the shade.
 */

import type { View } from "./protocol.js";

/** Part of a ring, between two radii and two angles (radians). */
export interface Sector {
  inner: number;
  outer: number;
  from: number;
  to: number;
  strictness: number;
}

export interface Fan {
  sectors: Sector[];
  /** Square zones with this side, aligned with the world, and a circle around each object. */
  squares: { side: number; aoi: number } | null;
  /** All objects are sent: there is no shape to draw. */
  everything: boolean;
}

const TURN = 2 * Math.PI;
const radians = (degrees: number): number => (degrees * Math.PI) / 180;

/** Rings that approximate a relevance that falls steadily from the critical circle outwards. */
const ATTENUATION_RINGS = 4;

/** The shapes of a view. `reach` stands for infinity, since there is no map beyond it. */
export function fan(view: View, reach: number): Fan {
  const shapes = (sectors: Sector[]): Fan => ({ sectors, squares: null, everything: false });
  const far = Math.min(view.view ?? reach, reach);
  const critical = view.critical ?? 0;
  const field = radians(view.field ?? 360);
  switch (view.policy) {
    case "broadcast":
      return { sectors: [], squares: null, everything: true };
    case "zoned":
      return {
        sectors: [],
        squares: { side: view.side ?? 0, aoi: view.aoi ?? 0 },
        everything: false,
      };
    case "custom":
      // Only the game knows the shape of a custom policy.
      return shapes([]);
    case "circle":
      return shapes([ring(0, far, TURN, 1)]);
    case "fov":
      return shapes([ring(0, far, field, 1)]);
    case "attenuated":
      return shapes([ring(0, critical, TURN, 1), ...attenuated(critical, far, TURN)]);
    case "a3":
      return shapes([ring(0, critical, TURN, 1), ...attenuated(critical, far, field)]);
    case "vfc":
      return shapes(cells(view, reach));
  }
}

function ring(inner: number, outer: number, angle: number, strictness: number): Sector {
  return { inner, outer, from: -angle / 2, to: angle / 2, strictness };
}

function attenuated(critical: number, far: number, angle: number): Sector[] {
  const step = (far - critical) / ATTENUATION_RINGS;
  return Array.from({ length: ATTENUATION_RINGS }, (_, index) =>
    ring(
      critical + index * step,
      critical + (index + 1) * step,
      angle,
      (ATTENUATION_RINGS - index) / (ATTENUATION_RINGS + 1),
    ),
  );
}

/** A cell for each zone and field; a field is on both sides of the previous one. */
function cells(view: View, reach: number): Sector[] {
  const zones = (view.zones ?? []).map((radius) => Math.min(radius ?? reach, reach));
  const fields = (view.fields ?? []).map(radians);
  const sectors: Sector[] = [];
  zones.forEach((outer, zone) => {
    const inner = zone === 0 ? 0 : zones[zone - 1]!;
    if (outer <= inner) return;
    fields.forEach((angle, field) => {
      const before = field === 0 ? 0 : fields[field - 1]!;
      const loose = (zone / zones.length + field / fields.length) / 2;
      const common = { inner, outer, strictness: 1 - loose };
      if (field === 0) {
        sectors.push({ ...common, from: -angle / 2, to: angle / 2 });
      } else {
        sectors.push({ ...common, from: before / 2, to: angle / 2 });
        sectors.push({ ...common, from: -angle / 2, to: -before / 2 });
      }
    });
  });
  return sectors;
}
