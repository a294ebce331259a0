"""For every test: a property is about values. How long an example takes on a machine that is busy is no finding."""

import gc

try:
    from hypothesis import settings
except ModuleNotFoundError:  # `make gpu` runs two rooms of tests that have none, on a machine where nothing can be installed
    pass
else:
    settings.register_profile("suite", deadline=None, print_blob=True, max_examples=50)
    settings.load_profile("suite")


def pytest_collection_finish() -> None:
    """What was imported and collected lives as long as the process: the garbage collector need not walk it again and again."""
    gc.freeze()
