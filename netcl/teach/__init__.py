"""What the lessons need: the course laid into a folder, and the checks behind the exercises."""
