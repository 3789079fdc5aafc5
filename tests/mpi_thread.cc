#include "tests/mpi_thread.h"

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

std::atomic<int> most_level = MPI_THREAD_MULTIPLE;

// Set once.
std::atomic<std::thread::id> thread_of_mpi;

// That have not ended. Of that thread.
std::vector<MPI_Request>& OpenReceives() {
  static auto& receives = *new std::vector<MPI_Request>;
  return receives;
}

// If it is of a receive.
void NoteEnd(MPI_Request request) { std::erase(OpenReceives(), request); }

}  // namespace

namespace tutti {

void GrantFunneledOnly() { most_level = MPI_THREAD_FUNNELED; }

void CheckMpiThread(const char* function) {
  if (std::this_thread::get_id() == thread_of_mpi.load()) return;
  std::fprintf(stderr, "%s() is called on another thread than MPI's\n",
               function);
  std::abort();
}

}  // namespace tutti

// --- MPI's functions, by its interface for profiling -------------------------

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

int MPI_Finalize() {
  tutti::CheckMpiThread("MPI_Finalize");
  if (!OpenReceives().empty()) {
    std::fprintf(stderr, "MPI_Finalize() finds %zu receives open\n",
                 OpenReceives().size());
    std::abort();
  }
  return PMPI_Finalize();
}
