(ns reply)

(defn reply [body _]
  {:body body :type "text/plain"})
