#ifndef TUTTI_REMOTE_MPI_MESSAGES_MPI_CUDA_H_
#define TUTTI_REMOTE_MPI_MESSAGES_MPI_CUDA_H_

namespace tutti {

// Whether MPI takes addresses of memory of GPUs, as MPIX_Query_cuda_support()
// has it; false where there is no such call. REQUIRES: MPI has been
// initialised.
bool MpiSaysItIsCudaAware();

// The same of the header that this was built with; may be called at any time.
bool MpiHeaderSaysItIsCudaAware();

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_CUDA_H_
