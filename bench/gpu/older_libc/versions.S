// Calls functions in the versions that glibc 2.28 has of them.
//
// A program that is linked with a newer glibc wants the newest ones, such as
// GLIBC_2.34 of all that was in libpthread, libdl and librt before these became
// part of libc. The old ones stay there for programs that were linked before.
// Here each name becomes a function of the program, which jumps to the old
// version: so do all calls then, also those from packaged static libraries.
//
// The old versions are what newer ones are, but for two: pthread_kill says of a
// thread that has ended that there is none, and log2 looks at how errors are to
// be handled.
//
// What is missing here program_test names. `objdump -T` of glibc's libraries
// shows old versions in parentheses.

.macro older name, version
  .symver old_\name, \name@GLIBC_\version
  .globl \name
  .hidden \name
  .type \name, @function
\name:
  .cfi_startproc
  jmp *old_\name@GOTPCREL(%rip)
  .cfi_endproc
  .size \name, . - \name
.endm

  .text
  older dlclose, 2.2.5
  older dlerror, 2.2.5
  older dlmopen, 2.3.4
  older dlopen, 2.2.5
  older dlsym, 2.2.5
  older dlvsym, 2.2.5
  older log2, 2.2.5
  older pthread_condattr_setclock, 2.3.3
  older pthread_condattr_setpshared, 2.2.5
  older pthread_create, 2.2.5
  older pthread_detach, 2.2.5
  older pthread_getspecific, 2.2.5
  older pthread_join, 2.2.5
  older pthread_key_create, 2.2.5
  older pthread_key_delete, 2.2.5
  older pthread_kill, 2.2.5
  older pthread_mutex_trylock, 2.2.5
  older pthread_mutexattr_destroy, 2.2.5
  older pthread_mutexattr_init, 2.2.5
  older pthread_mutexattr_setpshared, 2.2.5
  older pthread_mutexattr_settype, 2.2.5
  older pthread_once, 2.2.5
  older pthread_rwlock_destroy, 2.2.5
  older pthread_rwlock_init, 2.2.5
  older pthread_rwlock_rdlock, 2.2.5
  older pthread_rwlock_timedrdlock, 2.2.5
  older pthread_rwlock_timedwrlock, 2.2.5
  older pthread_rwlock_tryrdlock, 2.2.5
  older pthread_rwlock_trywrlock, 2.2.5
  older pthread_rwlock_unlock, 2.2.5
  older pthread_rwlock_wrlock, 2.2.5
  older pthread_rwlockattr_destroy, 2.2.5
  older pthread_rwlockattr_init, 2.2.5
  older pthread_rwlockattr_setpshared, 2.2.5
  older pthread_setspecific, 2.2.5
  older pthread_sigmask, 2.2.5
  older pthread_spin_destroy, 2.2.5
  older pthread_spin_init, 2.2.5
  older pthread_spin_lock, 2.2.5
  older pthread_spin_trylock, 2.2.5
  older pthread_spin_unlock, 2.2.5
  older sem_destroy, 2.2.5
  older sem_init, 2.2.5
  older sem_post, 2.2.5
  older sem_timedwait, 2.2.5
  older sem_trywait, 2.2.5
  older sem_wait, 2.2.5
  older shm_open, 2.2.5
  older shm_unlink, 2.2.5

  .section .note.GNU-stack, "", @progbits
