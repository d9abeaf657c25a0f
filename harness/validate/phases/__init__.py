"""What a phase must have done, judged by what was seen before, during and after it."""
