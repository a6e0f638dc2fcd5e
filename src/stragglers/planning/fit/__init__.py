"""A fleet's latency, estimated from a log of its participations."""
