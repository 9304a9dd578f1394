"""The live service: a log of events, a learner that follows it, and an HTTP API."""
