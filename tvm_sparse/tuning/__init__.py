"""Search for better schedules of a model's operators, and the records of what was found."""
