"""What to do about a finding: the policy language, its checker, and the judgements made with it. All pure."""
