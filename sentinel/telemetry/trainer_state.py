"""stub"""
class TrainerStateLog:
    pass
def looks_like_trainer_state(head): return False
