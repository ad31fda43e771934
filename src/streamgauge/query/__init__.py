"""What a curator declares and asks for: the pipeline file, the SQL, types and bounds, the planner."""
