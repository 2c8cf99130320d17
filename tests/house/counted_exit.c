// For coverage.py, which has every program linked with --wrap=_exit: a process that ends by _exit, as
// children that tests fork do, writes its counters too.
void __gcov_dump(void);
void __real__exit(int code) __attribute__((noreturn));

void __wrap__exit(int code) {
  __gcov_dump();
  __real__exit(code);
}
