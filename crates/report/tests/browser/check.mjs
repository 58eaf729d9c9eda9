// Opens a report in a real browser and checks that figures are drawn, nothing is fetched, the console stays empty, no text covers
// another or is cut off, tables fit the page, a phone needs no horizontal scrolling, and dark pages are readable.
//
// node check.mjs RUN [SCREENSHOTS] [--all]
//
// RUN is a folder that `semfocus report` has written to, SCREENSHOTS a folder for screenshots. With --all the page must have
// all its sections.
import { chromium } from "playwright-core";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { existsSync, mkdirSync, readFileSync } from "node:fs";

const [run, screenshots] = process.argv.slice(2).filter(argument => argument !== "--all");
const page_url = pathToFileURL(resolve(run, "report.html")).href;
const failures = [];
const expect = (condition, what) => { if (!condition) failures.push(what); };

// If the page has surfaces, all are drawn and rotate together with the mouse and the arrow keys.
async function checkSurfaces(page, name) {
  const canvases = await page.locator("canvas.surface").all();
  if (canvases.length === 0) return;
  const pictures = () => Promise.all(canvases.map(canvas => canvas.evaluate(canvas => canvas.toDataURL())));
  const expectChange = async (before, what) => {
    await page.waitForTimeout(100);
    const after = await pictures();
    const group = await canvases[0].evaluate(canvas => canvas.closest(".surfaces").querySelectorAll("canvas").length);
    expect(after.slice(0, group).every((picture, index) => picture !== before[index]), `${name}: ${what} rotates no surface`);
    expect(after.slice(group).every((picture, index) => picture === before[group + index]), `${name}: ${what} rotates others`);
  };
  for (const canvas of canvases) {
    const filled = await canvas.evaluate(canvas => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      return data.filter((value, index) => index % 4 === 3 && value > 0).length / (canvas.width * canvas.height);
    });
    expect(filled > 0.05 && filled < 0.95, `${name}: a surface fills ${filled} of its canvas`);
    expect((await canvas.getAttribute("aria-label")).length > 20, `${name}: a surface without a description`);
  }
  await canvases[0].scrollIntoViewIfNeeded();
  const { x, y, width, height } = await canvases[0].boundingBox();
  const initial = await pictures();
  await page.mouse.move(x + width / 2, y + height / 2);
  await page.mouse.down();
  await page.mouse.move(x + width / 2 + 60, y + height / 2 + 20, { steps: 3 });
  await page.mouse.up();
  await expectChange(initial, "dragging");
  const dragged = await pictures();
  await canvases[0].focus();
  await page.keyboard.press("ArrowLeft");
  await expectChange(dragged, "an arrow key");
}

// Pairs of texts that cover each other, in figures and in lists of verdicts, and texts that reach out of their figure or column.
const badTexts = page => page.evaluate(() => {
  const found = [];
  const covers = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1.5
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1.5;
  for (const svg of document.querySelectorAll("figure svg.figure")) {
    const frame = svg.getBoundingClientRect();
    if (frame.width === 0) continue;
    // The box of a text has room above and below its letters.
    const texts = [...svg.querySelectorAll("text")].map(text => {
      const { left, right, top, bottom } = text.getBoundingClientRect();
      const isUpright = right - left < bottom - top && text.getAttribute("transform") !== null;
      const [x, y] = isUpright ? [0.2 * (right - left), 0] : [0, 0.2 * (bottom - top)];
      return { name: text.textContent, left: left + x, right: right - x, top: top + y, bottom: bottom - y };
    });
    const title = svg.getAttribute("aria-label");
    texts.forEach((one, index) => {
      if (one.left < frame.left - 1 || one.right > frame.right + 1 || one.top < frame.top - 1 || one.bottom > frame.bottom + 1) {
        found.push(`${title}: "${one.name}" is cut off`);
      }
      for (const other of texts.slice(index + 1)) {
        if (covers(one, other)) found.push(`${title}: "${one.name}" covers "${other.name}"`);
      }
    });
  }
  for (const line of document.querySelectorAll(".verdicts li, dl")) {
    const parts = [...line.children].map(part => [part.textContent, part.getBoundingClientRect(), part]);
    parts.forEach(([name, box, part], index) => {
      if (part.scrollWidth > part.clientWidth + 1 && part.clientWidth > 0) found.push(`"${name}" is wider than its column`);
      for (const [other, otherBox] of parts.slice(index + 1)) {
        if (covers(box, otherBox)) found.push(`"${name}" covers "${other}"`);
      }
    });
  }
  return found;
});

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"],
});
try {
  const views = [["desktop", 1280, "light"], ["phone", 390, "light"], ["dark", 1280, "dark"], ["wide", 1600, "light"]];
  for (const [name, width, scheme] of views) {
    const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme });
    const page = await context.newPage();
    page.on("console", message => { if (message.type() === "error") failures.push(`${name}: console: ${message.text()}`); });
    page.on("pageerror", error => failures.push(`${name}: ${error}`));
    page.on("requestfailed", request => failures.push(`${name}: failed: ${request.url()}`));
    const requests = [];
    page.on("request", request => { if (!request.url().startsWith("data:")) requests.push(request.url()); });
    await page.goto(page_url);
    expect(requests.length === 1 && requests[0] === page_url, `${name}: asks for ${requests.slice(1)}`);
    const figures = await page.locator("figure svg.figure:visible").all();
    expect(figures.length >= 3, `${name}: ${figures.length} figures`);
    for (const figure of figures) {
      const box = await figure.boundingBox();
      expect(box !== null && box.width > 200 && box.height > 40, `${name}: a figure of ${JSON.stringify(box)}`);
      expect(await figure.locator("path, polyline, line").count() > 3, `${name}: an empty figure`);
    }
    const headline = await page.locator("#headline").boundingBox();
    const first = await figures[0].boundingBox();
    expect(headline !== null && headline.y < 400 && first.y < (width < 500 ? 900 : 700), `${name}: the headline is at ${headline?.y}, a figure at ${first.y}`);
    expect(await page.locator("#verdict").isVisible(), `${name}: no verdict`);
    const verdicts = await page.locator(".verdicts li").allInnerTexts();
    const isEmpty = (await page.locator("#headline").innerText()).startsWith("Nothing learned");
    expect((isEmpty || verdicts.length > 0) && verdicts.every(text => text.length > 20), `${name}: ${verdicts}`);
    for (const section of ["#theory", "#surface"]) {
      expect(process.argv.includes("--all") ? await page.locator(section).isVisible() : true, `${name}: no ${section}`);
    }
    expect(await page.locator("table").count() >= 3, `${name}: tables`);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    expect(overflow <= 0, `${name}: ${overflow} pixels too wide`);
    await page.evaluate(() => document.querySelectorAll("details").forEach(details => { details.open = true; }));
    for (const bad of await badTexts(page)) failures.push(`${name}: ${bad}`);
    const tables = await page.locator(".scroll").evaluateAll(all => all.map(box => {
      const { left, right } = box.getBoundingClientRect();
      const hidden = box.scrollWidth - box.clientWidth;
      const heads = [...box.querySelectorAll("thead tr:last-child th, thead th[rowspan]")].length;
      return { title: box.ariaLabel, left, right, hidden, heads, cells: box.querySelectorAll("tbody tr:first-child td").length };
    }));
    for (const { title, left, right, hidden, heads, cells } of tables) {
      expect(name === "phone" || hidden <= 0, `${name}: table ${title} is ${hidden} pixels wider than the page`);
      expect(left >= 0 && right <= width, `${name}: table ${title} reaches from ${left} to ${right} of ${width}`);
      expect(cells === 0 || heads === cells, `${name}: table ${title} has ${heads} headings for ${cells} columns`);
    }
    const widest = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    expect(widest <= 0, `${name}: ${widest} pixels too wide with all tables open`);
    const links = await page.locator("a[href]").evaluateAll(all => all.map(link => link.getAttribute("href")));
    const inside = links.filter(link => link.startsWith("#"));
    expect(inside.length >= 5, `${name}: contents ${inside}`);
    for (const link of inside) expect(await page.locator(link).count() === 1, `${name}: ${link} is not there`);
    const files = links.filter(link => link.startsWith("data:"));
    const beside = links.filter(link => link.startsWith("figures/"));
    for (const link of beside) expect(existsSync(resolve(run, link)), `${name}: there is no ${link}`);
    const known = inside.length + files.length + beside.length;
    expect(files.length > 5 && known === links.length, `${name}: links that need a network`);
    const [download] = await Promise.all([page.waitForEvent("download"), page.locator("a[download='mechanisms.csv']").click()]);
    const content = readFileSync(await download.path(), "utf8");
    expect(content === readFileSync(resolve(run, "tables/mechanisms.csv"), "utf8"), `${name}: mechanisms.csv is ${content}`);
    const [ink, paper] = await page.evaluate(() => {
      const style = getComputedStyle(document.body);
      return [style.color, style.backgroundColor];
    });
    const lightness = colour => colour.match(/\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 765;
    expect(Math.abs(lightness(ink) - lightness(paper)) > 0.6, `${name}: ${ink} on ${paper}`);
    expect((scheme === "dark") === (lightness(paper) < 0.5), `${name}: ${paper} is not ${scheme}`);
    await checkSurfaces(page, name);
    if (screenshots) {
      mkdirSync(screenshots, { recursive: true });
      await page.screenshot({ path: `${screenshots}/${name}.png`, fullPage: true });
    }
    await context.close();
  }
  if (screenshots) {
    const page = await browser.newPage();
    await page.goto(page_url);
    await page.pdf({ path: `${screenshots}/print.pdf`, format: "A4" });
  }
} finally {
  await browser.close();
}
if (failures.length) {
  console.error(failures.join("\n"));
  process.exit(1);
}
console.log("report.html: figures, verdict, tables, contents and embedded files are there, light, dark and on a phone; no errors, no requests");
