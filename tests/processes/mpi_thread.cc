#include "tests/processes/mpi_thread.h"

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

std::atomic<int> most_level = MPI_THREAD_MULTIPLE;

// Set once: by the thread that initialises MPI, or by MPI's first caller if the
// program has initialised MPI by PMPI_Init_thread().
std::atomic<std::thread::id> thread_of_mpi;

// Receives that have not ended. Only MPI's thread uses them.
std::vector<MPI_Request>& OpenReceives() {
  static auto& receives = *new std::vector<MPI_Request>;
  return receives;
}

// Removes the request if it is a receive.
void NoteEnd(MPI_Request request) { std::erase(OpenReceives(), request); }

}  // namespace

namespace tutti {

void GrantFunneledOnly() { most_level = MPI_THREAD_FUNNELED; }

void CheckMpiThread(const char* function) {
  const std::thread::id caller = std::this_thread::get_id();
  std::thread::id nobody;
  if (thread_of_mpi.compare_exchange_strong(nobody, caller)) return;
  if (thread_of_mpi == caller) return;
  std::fprintf(stderr, "%s() is called on another thread than MPI's\n",
               function);
  std::abort();
}

}  // namespace tutti

// --- MPI functions, intercepted by the profiling interface -------------------

int MPI_Init_thread(int* argc, char*** argv, int wanted, int* granted) {
  thread_of_mpi = std::this_thread::get_id();
  return PMPI_Init_thread(argc, argv, std::min(wanted, most_level.load()),
                          granted);
}

int MPI_Isend(const void* from, int count, MPI_Datatype type, int to, int tag,
              MPI_Comm communicator, MPI_Request* request) {
  tutti::CheckMpiThread("MPI_Isend");
  return PMPI_Isend(from, count, type, to, tag, communicator, request);
}

int MPI_Irecv(void* into, int count, MPI_Datatype type, int from, int tag,
              MPI_Comm communicator, MPI_Request* request) {
  tutti::CheckMpiThread("MPI_Irecv");
  const int code =
      PMPI_Irecv(into, count, type, from, tag, communicator, request);
  OpenReceives().push_back(*request);
  return code;
}

int MPI_Cancel(MPI_Request* request) {
  tutti::CheckMpiThread("MPI_Cancel");
  return PMPI_Cancel(request);
}

int MPI_Test(MPI_Request* request, int* ended, MPI_Status* status) {
  tutti::CheckMpiThread("MPI_Test");
  const MPI_Request before = *request;
  const int code = PMPI_Test(request, ended, status);
  if (*ended != 0) NoteEnd(before);
  return code;
}

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  tutti::CheckMpiThread("MPI_Wait");
  const MPI_Request before = *request;
  const int code = PMPI_Wait(request, status);
  NoteEnd(before);
  return code;
}

int MPI_Testsome(int count, MPI_Request requests[], int* num_ended,
                 int indices[], MPI_Status statuses[]) {
  tutti::CheckMpiThread("MPI_Testsome");
  const std::vector<MPI_Request> before(requests, requests + count);
  const int code = PMPI_Testsome(count, requests, num_ended, indices, statuses);
  for (int i = 0; i < *num_ended; ++i) NoteEnd(before[indices[i]]);
  return code;
}

int MPI_T_init_thread(int wanted, int* granted) {
  tutti::CheckMpiThread("MPI_T_init_thread");
  return PMPI_T_init_thread(wanted, granted);
}

int MPI_T_cvar_write(MPI_T_cvar_handle variable, const void* value) {
  tutti::CheckMpiThread("MPI_T_cvar_write");
  return PMPI_T_cvar_write(variable, value);
}

int MPI_Iallreduce(const void* from, void* into, int count, MPI_Datatype type,
                   MPI_Op op, MPI_Comm communicator, MPI_Request* request) {
  tutti::CheckMpiThread("MPI_Iallreduce");
  return PMPI_Iallreduce(from, into, count, type, op, communicator, request);
}

int MPI_Ibcast(void* bytes, int count, MPI_Datatype type, int root,
               MPI_Comm communicator, MPI_Request* request) {
  tutti::CheckMpiThread("MPI_Ibcast");
  return PMPI_Ibcast(bytes, count, type, root, communicator, request);
}

int MPI_Ireduce(const void* from, void* into, int count, MPI_Datatype type,
                MPI_Op op, int root, MPI_Comm communicator,
                MPI_Request* request) {
  tutti::CheckMpiThread("MPI_Ireduce");
  return PMPI_Ireduce(from, into, count, type, op, root, communicator, request);
}

int MPI_Ireduce_scatter_block(const void* from, void* into, int count,
                              MPI_Datatype type, MPI_Op op,
                              MPI_Comm communicator, MPI_Request* request) {
  tutti::CheckMpiThread("MPI_Ireduce_scatter_block");
  return PMPI_Ireduce_scatter_block(from, into, count, type, op, communicator,
                                    request);
}

int MPI_Ireduce_scatter(const void* from, void* into, const int counts[],
                        MPI_Datatype type, MPI_Op op, MPI_Comm communicator,
                        MPI_Request* request) {
  tutti::CheckMpiThread("MPI_Ireduce_scatter");
  return PMPI_Ireduce_scatter(from, into, counts, type, op, communicator,
                              request);
}

int MPI_Iallgather(const void* from, int send_count, MPI_Datatype send_type,
                   void* into, int count, MPI_Datatype type,
                   MPI_Comm communicator, MPI_Request* request) {
  tutti::CheckMpiThread("MPI_Iallgather");
  return PMPI_Iallgather(from, send_count, send_type, into, count, type,
                         communicator, request);
}

int MPI_Iallgatherv(const void* from, int send_count, MPI_Datatype send_type,
                    void* into, const int counts[], const int offsets[],
                    MPI_Datatype type, MPI_Comm communicator,
                    MPI_Request* request) {
  tutti::CheckMpiThread("MPI_Iallgatherv");
  return PMPI_Iallgatherv(from, send_count, send_type, into, counts, offsets,
                          type, communicator, request);
}

int MPI_Ialltoall(const void* from, int send_count, MPI_Datatype send_type,
                  void* into, int count, MPI_Datatype type,
                  MPI_Comm communicator, MPI_Request* request) {
  tutti::CheckMpiThread("MPI_Ialltoall");
  return PMPI_Ialltoall(from, send_count, send_type, into, count, type,
                        communicator, request);
}

int MPI_Ialltoallv(const void* from, const int send_counts[],
                   const int send_offsets[], MPI_Datatype send_type, void* into,
                   const int counts[], const int offsets[], MPI_Datatype type,
                   MPI_Comm communicator, MPI_Request* request) {
  tutti::CheckMpiThread("MPI_Ialltoallv");
  return PMPI_Ialltoallv(from, send_counts, send_offsets, send_type, into,
                         counts, offsets, type, communicator, request);
}

int MPI_Comm_split(MPI_Comm communicator, int color, int key, MPI_Comm* made) {
  tutti::CheckMpiThread("MPI_Comm_split");
  return PMPI_Comm_split(communicator, color, key, made);
}

int MPI_Comm_split_type(MPI_Comm communicator, int type, int key, MPI_Info info,
                        MPI_Comm* made) {
  tutti::CheckMpiThread("MPI_Comm_split_type");
  return PMPI_Comm_split_type(communicator, type, key, info, made);
}

int MPI_Ibarrier(MPI_Comm communicator, MPI_Request* request) {
  tutti::CheckMpiThread("MPI_Ibarrier");
  return PMPI_Ibarrier(communicator, request);
}

int MPI_Comm_dup(MPI_Comm communicator, MPI_Comm* made) {
  tutti::CheckMpiThread("MPI_Comm_dup");
  return PMPI_Comm_dup(communicator, made);
}

int MPI_Allgather(const void* from, int send_count, MPI_Datatype send_type,
                  void* into, int count, MPI_Datatype type,
                  MPI_Comm communicator) {
  tutti::CheckMpiThread("MPI_Allgather");
  return PMPI_Allgather(from, send_count, send_type, into, count, type,
                        communicator);
}

int MPI_Allreduce(const void* from, void* into, int count, MPI_Datatype type,
                  MPI_Op op, MPI_Comm communicator) {
  tutti::CheckMpiThread("MPI_Allreduce");
  return PMPI_Allreduce(from, into, count, type, op, communicator);
}

int MPI_Bcast(void* bytes, int count, MPI_Datatype type, int root,
              MPI_Comm communicator) {
  tutti::CheckMpiThread("MPI_Bcast");
  return PMPI_Bcast(bytes, count, type, root, communicator);
}

int MPI_Barrier(MPI_Comm communicator) {
  tutti::CheckMpiThread("MPI_Barrier");
  return PMPI_Barrier(communicator);
}

int MPI_Type_contiguous(int count, MPI_Datatype of, MPI_Datatype* made) {
  tutti::CheckMpiThread("MPI_Type_contiguous");
  return PMPI_Type_contiguous(count, of, made);
}

int MPI_Type_commit(MPI_Datatype* type) {
  tutti::CheckMpiThread("MPI_Type_commit");
  return PMPI_Type_commit(type);
}

int MPI_Type_free(MPI_Datatype* type) {
  tutti::CheckMpiThread("MPI_Type_free");
  return PMPI_Type_free(type);
}

int MPI_Op_create(MPI_User_function* function, int commutes, MPI_Op* made) {
  tutti::CheckMpiThread("MPI_Op_create");
  return PMPI_Op_create(function, commutes, made);
}

int MPI_Finalize() {
  tutti::CheckMpiThread("MPI_Finalize");
  if (!OpenReceives().empty()) {
    std::fprintf(stderr, "MPI_Finalize() finds %zu receives open\n",
                 OpenReceives().size());
    std::abort();
  }
  return PMPI_Finalize();
}
