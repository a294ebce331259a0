"""`sentinel probe`: starts a trainer for some steps, ends it, and says what can be watched, restored, changed and proved."""
