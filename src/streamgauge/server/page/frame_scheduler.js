// Scheduler of redraws. It draws all changes in one frame, then pauses so that slow machines stay responsive. Actions of
// the user are drawn immediately.

const PAUSE_FACTOR = 3; // pause as a multiple of the drawing time

export class FrameScheduler {
  constructor(draw) {
    Object.assign(this, { draw, pending: false, nextTime: 0, timer: 0 });
  }

  schedule({ immediate = false } = {}) {
    if (this.pending && !(immediate && this.timer)) return;
    this.pending = true;
    clearTimeout(this.timer);
    const delay = immediate ? 0 : this.nextTime - performance.now();
    if (delay > 0) this.timer = setTimeout(() => this.#frame(), delay);
    else this.#frame();
  }

  #frame() {
    this.timer = 0;
    requestAnimationFrame(() => {
      this.pending = false;
      const start = performance.now();
      this.draw();
      const end = performance.now();
      this.nextTime = end + PAUSE_FACTOR * (end - start);
    });
  }
}
