#!/usr/bin/env python3
"""docs/site.py FOLDER: writes the repository's documents as a site to FOLDER, with MkDocs.

README.md is the first page. The others include the error guide (errors.py), the pages that a build makes (MADE) and the
references of the C and the Python API (api.py). The script fails on a link that leads nowhere."""

import html.parser
import json
import pathlib
import shutil
import subprocess
import sys
import urllib.parse

import api

ROOT = pathlib.Path(__file__).resolve().parent.parent


def pages_of(folder, *made):
    """Returns a folder's pages and those that a build makes, in the order of docs/index.md."""
    found = {p.relative_to(ROOT).as_posix() for p in (ROOT / folder).glob("*.md")}
    index = (ROOT / "docs/index.md").read_text()
    pages = sorted(found | {f"{folder}/{name}" for name in made})
    return sorted(pages, key=lambda page: index.find(f"({page.removeprefix('docs/')})"))


NAVIGATION = [
    ("Start", ["README.md", "docs/index.md", "docs/performance.md"]),
    ("Tutorials", pages_of("docs/tutorials")),
    ("How to", pages_of("docs/howto")),
    ("Reference", pages_of("docs/reference", "cli.md", "errors.md", "imported_ops.md", "ops.md")),
    ("Explanation", ["ARCHITECTURE.md", *pages_of("docs/explanation")]),
    ("Examples", sorted(p.relative_to(ROOT).as_posix() for p in ROOT.glob("examples/*/README.md"))),
    ("Development", ["CONTRIBUTING.md", "serialize/README.md", *pages_of("docs/developers")]),
    ("Project", ["CHANGELOG.md", "MAINTAINERS.md", "SECURITY.md", "CODE_OF_CONDUCT.md"]),
]
# Options of mkdocstrings for the objects that docs/api.py names.
DOCSTRINGS = {
    "show_source": False,
    "show_root_heading": True,
    "show_symbol_type_heading": True,
    "members_order": "source",
    "filters": ["!^_"],
    "heading_level": 3,
    "separate_signature": True,
    "show_signature_annotations": True,
    "line_length": 100,
}
MADE = (
    "docs/reference/ops.md",
    "docs/reference/cli.md",
    "docs/reference/imported_ops.md",
)  # made by `make`, ignored by git
STYLE = "style.css"
# Wide tables and code scroll in themselves, and the bar of sections keeps to one line. On a narrow window, the button
# of a page's contents has a label.
LOOKS = """
body { overflow-wrap: break-word; }
body::before { display: none; }
table, pre { display: block; overflow-x: auto; }
.table { --bs-table-color: inherit; --bs-table-striped-color: inherit; }
code { -webkit-box-decoration-break: clone; box-decoration-break: clone; }
.codehilite pre code { background: inherit; }
.navbar { font-size: .875rem; white-space: nowrap; }
.navbar .navbar-nav .nav-link { padding-left: .35rem; padding-right: .35rem; }
.bs-sidebar .navbar-toggler::before { content: "On this page "; font-size: 1rem; }
#mkdocs-search-results { margin-top: 1rem; }
@media (min-width: 992px) { .navbar > .container { max-width: 100%; } }
"""
SEPARATOR = r"[\s\-.,;:()*&`]+"  # between words of the search, with what stands around names in code
# Files that documents link to.
LINKED = (".md", ".svg", ".h", ".c", ".cc", ".py", ".tsv", ".toml", ".txt", ".fbs")


def title_of(path):
    """Returns a page's first heading."""
    return next(line[2:].strip() for line in path.read_text().splitlines() if line.startswith("# "))


def stage(folder):
    """Writes the tree that MkDocs reads: every document at its path in the repository, and the files that they link to.

    Returns the paths of the API references."""
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        path = ROOT / name
        if path.is_file() and not name.startswith("test/fuzz") and (path.suffix in LINKED or name.startswith("ci/")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder / name)
    for name in MADE:
        shutil.copy(ROOT / name, folder / name)
    made = [sys.executable, ROOT / "docs/errors.py", "--out", folder / "docs/reference/errors.md"]
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
    from pygments.formatters import HtmlFormatter  # the tests of this file run without pygments

    (folder / STYLE).write_text(LOOKS + HtmlFormatter(style="default").get_style_defs(".codehilite") + "\n")
    return [f"docs/reference/api/{page}" for page in api.write(folder / "docs/reference/api")]


def configuration(staged, references, out):
    lines = ["site_name: clave", f"docs_dir: {staged}", f"site_dir: {out}", "use_directory_urls: false"]
    lines += ["theme: {name: mkdocs, highlightjs: false}", f"extra_css: [{STYLE}]"]
    lines += ["plugins:", f"  - search: {{separator: '{SEPARATOR}'}}", "  - mkdocstrings:"]
    lines += [f"      handlers: {{python: {{paths: [{ROOT / 'python'}], options: {json.dumps(DOCSTRINGS)}}}}}"]
    lines += [
        "markdown_extensions:",
        "  - tables",
        "  - fenced_code",
        "  - codehilite: {guess_lang: false}",
        "validation:",
    ]
    lines += ["  nav: {omitted_files: ignore}", "  links: {not_found: ignore, unrecognized_links: ignore}"]
    lines += ["nav:"]
    for section, pages in [*NAVIGATION, ("API", references)]:
        lines.append(f"  - {section}:")
        lines += [f'    - "{title_of(staged / p)}": {p}' for p in pages]
    return "\n".join(lines) + "\n"


class Page(html.parser.HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors |= {found[name] for name in ("id", "name") if found.get(name)}
        self.links += [found[name] for name in ("href", "src") if found.get(name)]


def leads_somewhere(site, path, link, pages):
    """True if a link of the page at `path` leads to a file of the site, and to a heading of it.

    Links to other sites are not followed."""
    parts = urllib.parse.urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
    if (target / "index.html").exists():
        target = target / "index.html"
    if not (target.is_relative_to(site) and target.exists()):
        return False
    return not parts.fragment or target not in pages or parts.fragment in pages[target].anchors


def dead_links(site):
    """Yields (page, link) for each link that leads nowhere."""
    pages = {p: Page(p.read_text()) for p in sorted(site.rglob("*.html")) if p.name != "404.html"}
    for path, page in pages.items():
        for link in page.links:
            if not leads_somewhere(site, path, link, pages):
                yield path.relative_to(site).as_posix(), link


def main(out):
    site = pathlib.Path(out).resolve()
    staged = site.parent / "site-pages"
    for folder in (site, staged):
        shutil.rmtree(folder, ignore_errors=True)
    references = stage(staged)
    settings = site.parent / "mkdocs.yml"
    settings.write_text(configuration(staged, references, site))
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "-q", "-f", settings], check=True)
    dead = list(dead_links(site))
    for page, link in dead:
        print(f"{page}: {link} leads nowhere")
    print(f"{len(list(site.rglob('*.html')))} pages in {out}, {len(dead)} dead links")
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
