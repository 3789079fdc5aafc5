#ifndef TUTTI_TESTS_DOUBLES_FORBID_SYSTEM_CALL_H_
#define TUTTI_TESTS_DOUBLES_FORBID_SYSTEM_CALL_H_

namespace tutti {

// From now on the system refuses a call, SYS_..., to this thread, with EPERM.
// False if it does not let that be.
bool ForbidSystemCall(int number);

}  // namespace tutti

#endif  // TUTTI_TESTS_DOUBLES_FORBID_SYSTEM_CALL_H_
