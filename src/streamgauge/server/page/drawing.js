// When to draw: at a frame, once for all that changed, and never so often that a slow machine does nothing else;
// but what somebody chose is drawn at once.

const REST = 3; // times as long as it drew

export class Drawing {
  constructor(draw) {
    Object.assign(this, { draw, waits: false, rested: 0, timer: 0 });
  }

  ask({ atOnce = false } = {}) {
    if (this.waits && !(atOnce && this.timer)) return;
    this.waits = true;
    clearTimeout(this.timer);
    const rest = atOnce ? 0 : this.rested - performance.now();
    if (rest > 0) this.timer = setTimeout(() => this.#frame(), rest);
    else this.#frame();
  }

  #frame() {
    this.timer = 0;
    requestAnimationFrame(() => {
      this.waits = false;
      const begun = performance.now();
      this.draw();
      const ended = performance.now();
      this.rested = ended + REST * (ended - begun);
    });
  }
}
