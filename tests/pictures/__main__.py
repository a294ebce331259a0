"""Every picture of the documents, made anew from real runs.

    make pictures                                        # three minutes on two quiet cores; writes deploy/pictures/
    python -m tests.pictures [--into DIR] [--keep DIR] [--from DIR]

The demonstration trains, is hurt three times and repaired; meanwhile its terminal view is looked at twice a second (`demo.svg`, a
film; `top.svg`, the moment of the hang). A second run fails and calls a person. Then a browser takes the rest. `--keep DIR` keeps
both runs; `--from DIR` trains nothing and draws such a folder again. What went wrong leaves the folder as it was.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from itertools import groupby
from pathlib import Path

from tests.pictures.film import choose_frames, choose_still, draw_film
from tests.pictures.recording import ROOT, read_moments, record_demo, record_night, served
from tests.pictures.shots import SHOTS, take
from tests.unit.web_page.browser import MISSING, Page, start

PICTURES = ROOT / "deploy" / "pictures"
FILM, STILL = "demo.svg", "top.svg"
NAMES = (FILM, STILL, *(shot.file_name for shot in SHOTS))
FOLDER = Path(tempfile.gettempdir()) / "sentinel-pictures"  # some pictures show where the runs lie: the same for everybody


def main(words: list[str]) -> int:
    about = "Make every picture of the documents from real runs."
    parser = argparse.ArgumentParser(prog="python -m tests.pictures", description=about)
    parser.add_argument("--into", type=Path, default=PICTURES, help="where the pictures go; default deploy/pictures")
    parser.add_argument("--keep", type=Path, help="an empty folder for both runs, which are kept")
    parser.add_argument("--from", dest="kept", type=Path, help="a folder that --keep has kept: nothing is trained")
    options = parser.parse_args(words)
    if MISSING:
        print(f"no pictures without a browser: {MISSING}", file=sys.stderr)
        return 2
    folder = options.kept or options.keep or FOLDER
    if options.kept is None:
        if folder.exists() and any(folder.iterdir()):
            print(f"{folder}: is not empty; delete it, or draw it again with --from {folder}", file=sys.stderr)
            return 2
        folder.mkdir(parents=True, exist_ok=True)
        print(f"the demonstration trains in {folder}, four minutes", flush=True)
        record_demo(folder)
        print("a run that nothing repairs, one minute", flush=True)
        record_night(folder)
    options.into.mkdir(parents=True, exist_ok=True)
    for path in (*draw_terminal(folder, options.into), *photograph(folder, options.into)):
        print(f"{path}  {path.stat().st_size:,} bytes", flush=True)
    if folder == FOLDER and options.kept is None:
        shutil.rmtree(folder)
    return 0


def draw_terminal(folder: Path, into: Path) -> list[Path]:
    """The film and the still of the kept moments."""
    moments = read_moments(folder)
    film, still = into / FILM, into / STILL
    film.write_text(draw_film(choose_frames(moments), "sentinel demo"))
    still.write_text(draw_film([(choose_still(moments), 0.0)], "sentinel top demo"))
    return [film, still]


def photograph(folder: Path, into: Path) -> list[Path]:
    chrome, found = start(), []
    try:
        for runs, shots in groupby(SHOTS, key=lambda shot: shot.runs):
            with served(folder, runs) as address:
                found += [take(Page(chrome), shot, address, folder, into) for shot in shots]
    finally:
        chrome.quit()
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
