"""What runs while this process leads: stores, queues, controllers, and what makes whom look."""
