"""Real data and small models for the demonstration and the tests."""
