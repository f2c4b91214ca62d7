"""A file becomes a job: validated, secured, prescanned, admitted; followed, cancelled, rescued from dead workers."""
