// The whole picture in a corner, with the part that is visible.

import type { Picture } from "./layout";
import type { Item } from "./tree";

export interface Window {
  x: number;
  y: number;
  width: number;
  height: number;
}

export class Minimap {
  private readonly canvas: HTMLCanvasElement;
  private picture: Picture | null = null;
  private scale = 1;

  constructor(canvas: HTMLCanvasElement, go: (x: number, y: number) => void) {
    this.canvas = canvas;
    const move = (event: PointerEvent): void => {
      const box = canvas.getBoundingClientRect();
      go((event.clientX - box.left - this.left) / this.scale, (event.clientY - box.top - this.top) / this.scale);
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      move(event);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (event.buttons) move(event);
    });
  }

  private left = 0;
  private top = 0;

  /** Draws the picture, the boxes of some items in the color of links, and the visible part. */
  draw(picture: Picture, visible: Window, isLinked: (item: Item) => boolean): void {
    this.picture = picture;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const ratio = window.devicePixelRatio || 1;
    if (this.canvas.width !== width * ratio || this.canvas.height !== height * ratio) {
      this.canvas.width = width * ratio;
      this.canvas.height = height * ratio;
    }
    const context = this.canvas.getContext("2d");
    if (!context || !this.picture.width) return;
    this.scale = Math.min((width - 8) / picture.width, (height - 8) / picture.height);
    this.left = (width - picture.width * this.scale) / 2;
    this.top = (height - picture.height * this.scale) / 2;
    const style = getComputedStyle(this.canvas);
    const color = (name: string): string => style.getPropertyValue(name);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.translate(this.left, this.top);
    context.scale(this.scale, this.scale);
    const least = 1.2 / this.scale;
    const [link, open, node] = [color("--link"), color("--group-open"), color("--map-node")];
    for (const placed of picture.placed.values()) {
      if (placed.depth === 0) continue;
      context.fillStyle = placed.isOpen ? open : isLinked(placed.item) ? link : node;
      context.fillRect(placed.x, placed.y, Math.max(placed.width, least), Math.max(placed.height, least));
    }
    context.lineWidth = 1.5 / this.scale;
    context.strokeStyle = color("--accent");
    context.strokeRect(visible.x, visible.y, visible.width, visible.height);
  }
}
