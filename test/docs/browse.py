#!/usr/bin/env python3
"""browse.py SITE: reads every page of a site that docs/site.py made, in a headless browser.

A page loads without an error in the browser's log, shows a heading and its pictures, and is no wider than the window of
a desktop and of a telephone. Every link of the menus opens a page, and the search finds a function. Needs selenium
(ci/venv docs) and chromium with chromedriver (ci/deps packages); without chromedriver, the script prints "skipped"."""

import functools
import http.server
import pathlib
import shutil
import sys
import threading
import time
import urllib.parse

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support import expected_conditions as EC
from selenium.webdriver.support.ui import WebDriverWait

BROKEN_PICTURES = "return [...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.src)"
WIDER = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
MENU = "return [...document.querySelectorAll('.navbar a[href]')].map(a => a.href.split('#')[0])"
WIDTHS = (1280, 390)  # a desktop's window and a telephone's, in px
SECONDS = 20


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves the site, because browsers do not read the search's index from file://."""

    def log_message(self, *_):
        pass


def serve(site):
    handler = functools.partial(Quiet, directory=site)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def browser():
    options = webdriver.ChromeOptions()
    flags = (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
    )
    for flag in flags:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "SEVERE"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))


def resize(driver, width):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def problems(driver, address, known):
    """Yields a line for each problem of a page. known: the addresses to which its menu may lead."""
    driver.get(address)
    headings = [h for h in driver.find_elements(By.TAG_NAME, "h1") if h.is_displayed() and h.text.strip()]
    if not headings:
        yield "shows no heading"
    yield from (f"{picture} is not shown" for picture in driver.execute_script(BROKEN_PICTURES))
    yield from (f"the menu leads to {link}" for link in driver.execute_script(MENU) if link not in known)
    for width in WIDTHS:
        resize(driver, width)
        wider = driver.execute_script(WIDER)
        if wider > 0:
            yield f"is {wider} px wider than a window of {width} px"
    resize(driver, WIDTHS[0])
    yield from (entry["message"] for entry in driver.get_log("browser"))


def found_pages(driver, box, word):
    """Returns the pages that the search shows for a word; none before the search has loaded its index."""
    box.clear()
    box.send_keys(word)
    time.sleep(0.5)
    links = driver.find_elements(By.CSS_SELECTOR, "#mkdocs-search-results a")
    return [urllib.parse.urlsplit(link.get_attribute("href")).path[1:] for link in links]


def search_problems(driver, root, word, page):
    """Opens the search as a reader does, types the word, and yields a line if the results lack the page."""
    driver.get(f"{root}/index.html")
    wait = WebDriverWait(driver, SECONDS)
    driver.find_element(By.CSS_SELECTOR, '[data-bs-target="#mkdocs_search_modal"]').click()
    box = wait.until(EC.element_to_be_clickable((By.ID, "mkdocs-search-query")))
    pages = wait.until(lambda d: found_pages(d, box, word), f"the search for {word} finds nothing")
    if page not in pages:
        yield f"the search for {word} does not find {page}, but {pages}"


def main(site):
    if shutil.which("chromedriver") is None:
        print("skipped: no chromedriver is installed")
        return 0
    site = pathlib.Path(site).resolve()
    root, pages = serve(site), sorted(p.relative_to(site).as_posix() for p in site.rglob("*.html"))
    pages = [p for p in pages if p not in ("404.html", "search.html")]
    driver = browser()
    try:
        known = {f"{root}/", *(f"{root}/{page}" for page in pages)}
        found = [f"{p}: {line}" for p in pages for line in problems(driver, f"{root}/{p}", known)]
        found += search_problems(driver, root, "clave_session_run", "docs/reference/api/c_clave.html")
    finally:
        driver.quit()
    print("\n".join(found) or f"{len(pages)} pages read, menus and search work")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
