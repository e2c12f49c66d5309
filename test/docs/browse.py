#!/usr/bin/env python3
"""browse.py SITE: opens every page of a site that docs/site.py made in a headless browser. Loading causes no errors,
pictures load, the heading is visible, lines of code do not exceed the window, and the search finds a function. Needs
chromium, chromedriver and selenium (ci/deps packages, ci/venv docs)."""

import functools
import http.server
import pathlib
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
SECONDS = 20


class Quiet(http.server.SimpleHTTPRequestHandler):
    """The search needs a server: browsers do not read its index from file://."""

    def log_message(self, *_):
        pass


def serve(site):
    handler = functools.partial(Quiet, directory=site)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def browser():
    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,900"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "SEVERE"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))


def problems(driver, address):
    """Yields a line for each problem of a page."""
    driver.get(address)
    headings = [h for h in driver.find_elements(By.TAG_NAME, "h1") if h.is_displayed() and h.text.strip()]
    if not headings:
        yield "no heading is seen"
    yield from (f"{picture} is not shown" for picture in driver.execute_script(BROKEN_PICTURES))
    wider = driver.execute_script(WIDER)
    if wider > 0:
        yield f"is {wider} px wider than the window"
    yield from (entry["message"] for entry in driver.get_log("browser"))


def found_pages(driver, box, word):
    """Returns the pages that the search shows for a typed word; empty until its index is loaded."""
    box.clear()
    box.send_keys(word)
    time.sleep(0.5)
    links = driver.find_elements(By.CSS_SELECTOR, "#mkdocs-search-results a")
    return [urllib.parse.urlsplit(link.get_attribute("href")).path[1:] for link in links]


def search_problems(driver, root, word, page):
    """Searches as a reader does: clicks, types a word, and reads the pages found."""
    driver.get(f"{root}/index.html")
    wait = WebDriverWait(driver, SECONDS)
    driver.find_element(By.CSS_SELECTOR, '[data-bs-target="#mkdocs_search_modal"]').click()
    box = wait.until(EC.element_to_be_clickable((By.ID, "mkdocs-search-query")))
    pages = wait.until(lambda d: found_pages(d, box, word), f"the search for {word} finds nothing")
    if page not in pages:
        yield f"the search for {word} does not find {page}, but {pages}"


def main(site):
    site = pathlib.Path(site).resolve()
    root, pages = serve(site), sorted(p.relative_to(site).as_posix() for p in site.rglob("*.html"))
    pages = [p for p in pages if p not in ("404.html", "search.html")]
    driver = browser()
    try:
        found = [f"{p}: {line}" for p in pages for line in problems(driver, f"{root}/{p}")]
        found += search_problems(driver, root, "clave_session_run", "docs/reference/api/c_clave.html")
    finally:
        driver.quit()
    print("\n".join(found) or f"{len(pages)} pages read, search works")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
