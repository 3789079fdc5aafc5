#ifndef TUTTI_REMOTE_MPI_MESSAGES_MPI_RING_H_
#define TUTTI_REMOTE_MPI_MESSAGES_MPI_RING_H_

#include <mpi.h>

#include <cstdint>

namespace tutti {

// Makes MPI_Iallreduce run as a ring: every member sends and reduces one part
// of the array after the other. By default Open MPI halves the array. Where
// members are few or reduce in place, it sends the whole array up and down a
// tree.
//
// Open MPI has a control variable for the algorithm, which each call reads;
// this class sets it for one call. All members must therefore set it for the
// same calls, if CanSet() on all of them. Meanwhile no other thread of the
// process may call MPI_Iallreduce.
//
// For MPI's thread, while MPI is up.
class MpiRing {
 public:
  MpiRing() = default;
  ~MpiRing();
  MpiRing(const MpiRing&) = delete;
  MpiRing& operator=(const MpiRing&) = delete;

  // Returns true if such an all-reduce is faster as a ring, and has an element
  // for each member.
  static bool IsFaster(int num_members, int64_t num_elements,
                       int64_t num_bytes);

  // Returns false where MPI has no such variable, or the user has set it. The
  // first call takes 0.2 s: Open MPI reads all settings of all its components.
  bool CanSet();

  // Makes calls run as rings during its lifetime; null `ring`: as MPI chooses.
  // REQUIRES: CanSet().
  class Scope {
   public:
    explicit Scope(MpiRing* ring);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    MpiRing* const ring_;
  };

 private:
  void Open();
  void FindVariable();
  bool Set(int value);

  bool is_open_ = false;
  bool has_tools_ = false;
  MPI_T_cvar_handle variable_ = MPI_T_CVAR_HANDLE_NULL;  // Null: is not set.
  int as_ring_ = 0;
  int as_mpi_chooses_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_RING_H_
