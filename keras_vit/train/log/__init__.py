"""What a run reports: metrics, progress, speed, a summary and pictures."""
