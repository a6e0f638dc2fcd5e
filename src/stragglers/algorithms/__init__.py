"""Server algorithms: each a handful of pure functions closed over hyper-parameters."""
