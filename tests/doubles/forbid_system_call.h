#ifndef TUTTI_TESTS_DOUBLES_FORBID_SYSTEM_CALL_H_
#define TUTTI_TESTS_DOUBLES_FORBID_SYSTEM_CALL_H_

namespace tutti {

// Makes the system call `number` (SYS_...) fail with EPERM on this thread from
// now on. Returns false if the kernel does not support this.
bool ForbidSystemCall(int number);

}  // namespace tutti

#endif  // TUTTI_TESTS_DOUBLES_FORBID_SYSTEM_CALL_H_
