// When to draw: at a frame, once for all that changed, and never so often that a slow machine does nothing else.

const REST = 3; // times as long as it drew

export class Drawing {
  constructor(draw) {
    Object.assign(this, { draw, waits: false, rested: 0 });
  }

  ask() {
    if (this.waits) return;
    this.waits = true;
    const rest = this.rested - performance.now();
    if (rest > 0) setTimeout(() => this.#frame(), rest);
    else this.#frame();
  }

  #frame() {
    requestAnimationFrame(() => {
      this.waits = false;
      const begun = performance.now();
      this.draw();
      const ended = performance.now();
      this.rested = ended + REST * (ended - begun);
    });
  }
}
