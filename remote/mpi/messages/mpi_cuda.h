#ifndef TUTTI_REMOTE_MPI_MESSAGES_MPI_CUDA_H_
#define TUTTI_REMOTE_MPI_MESSAGES_MPI_CUDA_H_

namespace tutti {

// Returns whether MPI takes addresses of GPU memory, by
// MPIX_Query_cuda_support(); false where that call does not exist. REQUIRES:
// MPI has been initialised.
bool MpiSaysItIsCudaAware();

// Returns the same by the header that this was built with. Call at any time.
bool MpiHeaderSaysItIsCudaAware();

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_CUDA_H_
