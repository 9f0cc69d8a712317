(ns reply)

(defn reply [body _ answer]
  (answer body "text/plain"))
