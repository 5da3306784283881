//! Checkpoints of what tools changed, and their restoration.
