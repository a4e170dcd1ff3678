"""What is zero: families of masks that project scores, detect and describe themselves."""
