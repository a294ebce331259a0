"""For every test: a property is about values. How long an example takes on a machine that is busy is no finding."""

from hypothesis import settings

settings.register_profile("suite", deadline=None, print_blob=True)
settings.load_profile("suite")
