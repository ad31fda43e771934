// Scheduler of redraws: one frame for all changes, with a pause after each so that slow machines stay responsive.
// Choices of the user are drawn at once.

const REST = 3; // pause as a multiple of the drawing time

export class FrameScheduler {
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
