// What keeps somebody from reading the page, of the rules of WCAG 2.1 AA that a page of this kind can break.
const faults = [];
const say = (rule, element) => faults.push(rule + ": " + element.outerHTML.slice(0, 120));
const shown = element => element.getClientRects().length > 0;
const all = selector => [...document.querySelectorAll(selector)].filter(shown);

if (!document.documentElement.lang) faults.push("html has no lang");
if (!document.title) faults.push("no title");
if (document.querySelectorAll("main").length !== 1) faults.push("not one main");
if (document.querySelectorAll("h1").length !== 1) faults.push("not one h1");

const ids = [...document.querySelectorAll("[id]")].map(element => element.id);
for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) faults.push("id twice: " + id);
for (const element of document.querySelectorAll("[aria-labelledby]"))
  if (!document.getElementById(element.getAttribute("aria-labelledby"))) say("labelled by nothing", element);
for (const element of all("[role=img],[role=region]")) if (!element.getAttribute("aria-label")) say("no label", element);
for (const svg of all("svg"))
  if (!svg.closest("[role=img],[aria-hidden=true]")) say("a drawing without a text", svg);
for (const button of all("button")) if (!button.textContent.trim()) say("a button without a name", button);
for (const head of all("th")) if (!head.scope) say("no scope", head);
for (const list of all("dl"))
  for (const child of list.children) if (!/^D[TD]$/.test(child.tagName)) say("not of a list", child);

let level = 1;
for (const head of all("h1,h2,h3,h4")) {
  const own = Number(head.tagName[1]);
  if (own > level + 1) say("a level is left out", head);
  level = own;
}

// What scrolls can be reached by the keyboard.
for (const element of all("*")) {
  const style = getComputedStyle(element);
  const scrolls = /auto|scroll/.test(style.overflowX) && element.scrollWidth > element.clientWidth;
  if (scrolls && element.tabIndex < 0) say("cannot be scrolled by keys", element);
}

// WCAG 2.1, relative luminance and contrast ratio.
const channels = colour => colour.match(/[\d.]+/g).map(Number);
const luminance = ([r, g, b]) => {
  const linear = value => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
};
const behind = element => {
  for (; element; element = element.parentElement) {
    const colour = channels(getComputedStyle(element).backgroundColor);
    if (colour.length < 4 || colour[3] > 0) return colour;
  }
  return [255, 255, 255];
};
const reads = element => [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
for (const element of all("body *")) {
  if (!reads(element) || element.closest("script,style,title")) continue;
  const drawn = element.namespaceURI.endsWith("svg");
  const box = element.previousElementSibling;
  const style = getComputedStyle(element);
  const ink = channels(drawn ? style.fill : style.color);
  const paper = drawn && box && box.tagName === "rect" ? channels(getComputedStyle(box).fill) : behind(element);
  const [light, dark] = [luminance(ink), luminance(paper)].sort((a, b) => b - a);
  const ratio = (light + 0.05) / (dark + 0.05);
  if (ratio < 4.5) say("contrast " + ratio.toFixed(2), element);
}

// At this width the page itself does not scroll sideways.
const root = document.documentElement;
if (root.scrollWidth > root.clientWidth) faults.push("wider than the window: " + root.scrollWidth);
return faults;
