"""The page's own files. What may be served is what lies in the package when the server starts: no path of a request ever
reaches the disk."""

from __future__ import annotations

from pathlib import Path

from sentinel.web.answers import TEXT, RefusedRequest, Response

FOLDER = Path(__file__).resolve().parent / "page"
INDEX = "index.html"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}


class StaticFiles:
    def __init__(self, folder: Path = FOLDER) -> None:
        paths = folder.rglob("*") if folder.is_dir() else ()
        self._paths = {path.relative_to(folder).as_posix(): path for path in paths if path.suffix in TYPES and path.is_file()}
        self._known: dict[str, bytes] = {}

    def answer(self, name: str) -> Response:
        """Read once: a page must not change halfway because another version is being installed."""
        if name not in self._paths:
            what = "this sentinel was installed without its page; the API is there" if name == INDEX else "there is no such file"
            raise RefusedRequest(404, what)
        if name not in self._known:
            try:
                self._known[name] = self._paths[name].read_bytes()
            except OSError as error:
                raise RefusedRequest(500, f"{name}: cannot be read: {error.strerror}") from None
        return Response(self._known[name], TYPES.get(self._paths[name].suffix, TEXT), cache="no-cache")
