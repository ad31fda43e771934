// A running release, tick by tick: what each tick added is the difference of two releases.
//
// The error of a difference is not the difference of errors: the two releases share part of their noise, and how
// much the mechanism alone knows. What always holds is that standard errors at most add up (whatever is shared),
// so that sum is told on hovering as a bound, and no band is drawn that would not be honest.

export function differences(column) {
  const behind = column.value.slice(0, -1);
  const diff = column.value.slice(1).map((value, i) => (value === null || behind[i] === null ? null : value - behind[i]));
  const most = column.stddev.slice(1).map((sigma, i) => add(sigma, column.stddev[i]));
  const none = diff.map(() => null);
  const steps = column.tick.slice(1).map((tick, i) => tick === column.tick[i] + 1);
  return {
    tick: column.tick.slice(1), time: column.time.slice(1),
    value: diff.map((value, i) => (steps[i] ? value : null)),
    stddev: none, low: none, high: none, enough: column.enough.slice(1), most,
  };
}

const add = (one, other) => (one === null || other === null ? null : one + other);

/** The same of a truth, which has no error. */
export const steps = (values) => values.map((value, i) => (i && value !== null && values[i - 1] !== null ? value - values[i - 1] : null));

export const WHY = "Per tick: differences of the running release. Two releases share noise, so their bands do not simply subtract: "
  + "none is drawn. Hover for a bound on the standard error. For a band, ask for the window “each”.";
