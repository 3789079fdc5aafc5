// Starts the program under glibc older than 2.34, too.
//
// There __libc_start_main is given the function that runs the program's
// constructors. From 2.34 on it finds them itself, and what glibc links into
// programs gives it none; where it is given one, it still calls that instead.
// Destructors are run by the loader, in all versions.

extern "C" {

using Main = int(int, char**, char**);
using Constructor = void(int, char**, char**);

// What is in the section .init, and where the linker has put the constructors.
void _init();
extern Constructor* const __init_array_start[];
extern Constructor* const __init_array_end[];

int OldStartMain(Main* main, int argc, char** argv, Constructor* init,
                 void (*fini)(), void (*rtld_fini)(), void* stack_end);
asm(".symver OldStartMain, __libc_start_main@GLIBC_2.2.5");

static void Construct(int argc, char** argv, char** environment) {
  _init();
  for (auto* each = __init_array_start; each != __init_array_end; ++each) {
    (*each)(argc, argv, environment);
  }
}

// What glibc has linked into the program calls this first.
int __libc_start_main(Main* main, int argc, char** argv, Constructor*,
                      void (*)(), void (*rtld_fini)(), void* stack_end) {
  return OldStartMain(main, argc, argv, Construct, nullptr, rtld_fini,
                      stack_end);
}

}  // extern "C"
