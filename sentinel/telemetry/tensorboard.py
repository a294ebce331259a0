"""stub"""
from pathlib import Path
class EventLog:
    pass
def event_files(path): return []
def looks_like_events(head): return False
