/* pymqi includes this file and takes nothing from it: it builds and reads command formats in Python. */
#ifndef TEST_CMQCFC_H
#define TEST_CMQCFC_H
#include "cmqc.h"
#endif
