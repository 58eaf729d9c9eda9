// Opens a report in a real browser and checks that figures are drawn, nothing is fetched, the console stays empty, a phone
// needs no horizontal scrolling, and dark pages are readable.
//
// node check.mjs RUN [SCREENSHOTS] [--all]
//
// RUN is a folder that `semfocus report` has written to, SCREENSHOTS a folder for screenshots. With --all the page must have
// all its sections.
import { chromium } from "playwright-core";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { mkdirSync, readFileSync } from "node:fs";

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

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"],
});
try {
  for (const [name, width, scheme] of [["desktop", 1200, "light"], ["phone", 390, "light"], ["dark", 1200, "dark"]]) {
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
    expect(await page.locator("#verdict").isVisible(), `${name}: no verdict`);
    const verdicts = await page.locator(".verdicts li").allInnerTexts();
    expect(verdicts.length > 0 && verdicts.every(text => text.length > 20), `${name}: ${verdicts}`);
    for (const section of ["#theory", "#surface"]) {
      expect(process.argv.includes("--all") ? await page.locator(section).isVisible() : true, `${name}: no ${section}`);
    }
    expect(await page.locator("table").count() >= 3, `${name}: tables`);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    expect(overflow <= 0, `${name}: ${overflow} pixels too wide`);
    await page.evaluate(() => document.querySelectorAll("details").forEach(details => { details.open = true; }));
    const tables = await page.locator(".scroll").evaluateAll(all => all.map(box => {
      const { left, right } = box.getBoundingClientRect();
      const heads = [...box.querySelectorAll("thead tr:last-child th, thead th[rowspan]")].length;
      return { title: box.ariaLabel, left, right, heads, cells: box.querySelectorAll("tbody tr:first-child td").length };
    }));
    for (const { title, left, right, heads, cells } of tables) {
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
    expect(files.length > 5 && inside.length + files.length === links.length, `${name}: links that need a folder or a network`);
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
