"""Real faults done to the real trainer under a real supervisor, and a comparison of the end with a run that was never hurt.

    python -m tests.chaos                        # every kind of fault once, each drawn from a printed seed; the table
    python -m tests.chaos kill-rank --seed 7     # one kind
    python -m tests.chaos soak --minutes 20      # a long run, a fault a minute

`kinds` registers what can be done, `run` holds a run and its supervisor, `outcome` judges how one ended.
"""
