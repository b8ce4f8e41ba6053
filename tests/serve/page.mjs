// Runs the script of the page at argv[2] in Node, without a browser: hands the image file argv[3] to it as a drop, and
// prints what it then shows. Elements keep what is set on them; canvases keep what is drawn.
import {readFile} from "node:fs/promises";

const drawn = [];

class Element {
  constructor(tag) { Object.assign(this, {tag, style: {}, children: [], listeners: {}, textContent: "", value: ""}); }
  classList = {add() {}, remove() {}};
  append(...children) { this.children.push(...children); }
  replaceChildren(...children) { this.children = children; this.value = children[0]?.value ?? ""; }
  addEventListener(name, listener) { this.listeners[name] = listener; }
  getContext() {
    return {
      drawImage: picture => picture.pixels && drawn.push(picture.pixels),
      createImageData: (width, height) => ({width, height, data: new Uint8ClampedArray(4 * width * height)}),
      getImageData: (x, y, width, height) => ({data: new Uint8ClampedArray(4 * width * height).fill(128)}),
      putImageData: pixels => { this.pixels = pixels; },
    };
  }
}

const elements = {};
const [address, path] = process.argv.slice(2);
const page = await (await fetch(address)).text();
globalThis.document = {
  getElementById: id => elements[id] ??= new Element(id),
  createElement: tag => new Element(tag),
};
globalThis.createImageBitmap = async () => ({width: 37, height: 29});
const realFetch = fetch;
let open = 0;
globalThis.fetch = async (url, options) => {
  open += 1;
  try { return await realFetch(new URL(url, address), options); } finally { open -= 1; }
};
const settled = async () => {
  for (let quiet = 0; quiet < 5; quiet = open ? 0 : quiet + 1) await new Promise(done => setTimeout(done, 20));
};

(0, eval)(page.match(/<script>([^]*)<\/script>/)[1]);
await settled();
const bytes = await readFile(path);
const file = {name: "dropped", arrayBuffer: async () => bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)};
elements.drop.listeners.drop({preventDefault() {}, dataTransfer: {files: [file]}});
await settled();
console.log(JSON.stringify({
  models: elements.model.children.map(option => option.value),
  message: elements.message.textContent,
  rows: elements.answers.children.map(row => row.children.slice(0, 2).map(cell => cell.textContent)),
  pictures: elements.pictures.children.map(figure => figure.children[1].textContent),
  overlays: drawn.map(({width, height, data}) => ({width, height, alpha: [...data].filter((_, i) => i % 4 === 3)})),
}));
