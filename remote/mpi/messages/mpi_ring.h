#ifndef TUTTI_REMOTE_MPI_MESSAGES_MPI_RING_H_
#define TUTTI_REMOTE_MPI_MESSAGES_MPI_RING_H_

#include <mpi.h>

#include <cstdint>

namespace tutti {

// Has MPI_Iallreduce run as a ring, in which every member sends and reduces one
// part of the array after the other. By itself Open MPI sends the whole array
// up and down a tree, where members are few or reduce in place, or halves it.
//
// Open MPI has a control variable for that, which each call reads; this sets it
// for a call. So all members set it for the same ones, if CanSet() on all, and
// meanwhile no other thread of the process calls MPI_Iallreduce.
//
// For MPI's thread, while MPI is up.
class MpiRing {
 public:
  MpiRing() = default;
  ~MpiRing();
  MpiRing(const MpiRing&) = delete;
  MpiRing& operator=(const MpiRing&) = delete;

  // Whether an all-reduce of so many elements among so many members can be one,
  // with one for each, and is faster so.
  static bool IsFaster(int num_members, int64_t num_elements,
                       int64_t num_bytes);

  // False where MPI has no such variable, or the user has chosen an algorithm
  // by it. The first call takes 0.2 s: Open MPI reads what can be set of all
  // that it has.
  bool CanSet();

  // As long as this lives, calls run as rings; null: as MPI chooses. REQUIRES:
  // CanSet().
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
