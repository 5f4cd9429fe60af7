"""What the lab's commands share."""
