from hypothesis import settings

# The same examples on every machine: a failure in one place is a failure everywhere.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci")
